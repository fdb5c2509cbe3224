// Marks on results: which are right and which are wrong, until they are searched with or undone.

const $ = (id) => document.getElementById(id);

export function prepareMarks({ say, again }) {
  let marks = new Map(); // id -> "right" | "wrong", in the order of marking
  const undone = []; // what the marks were before each change
  let cards = $("grid");

  function change(next) {
    undone.push(new Map(marks));
    marks = next;
    paint();
  }

  function paint() {
    for (const card of cards.children) {
      const mark = marks.get(Number(card.dataset.id)) ?? "";
      card.dataset.mark = mark;
      for (const button of card.querySelectorAll(".mark")) {
        button.setAttribute("aria-pressed", String(button.value === mark));
      }
    }
    const { right, wrong } = ids();
    const text = `${right.length} right, ${wrong.length} wrong`;
    $("marks").hidden = undone.length === 0;
    $("marks-text").textContent = text;
    $("again").disabled = !right.length && !wrong.length;
  }

  function ids() {
    const of = (kind) => [...marks].filter(([, mark]) => mark === kind).map(([id]) => id);
    return { right: of("right"), wrong: of("wrong") };
  }

  function toggle(id, kind, name) {
    const next = new Map(marks);
    const off = next.get(id) === kind;
    next.delete(id);
    if (!off) next.set(id, kind);
    change(next);
    const { right, wrong } = ids();
    say(`${name}: ${off ? "mark removed" : `marked ${kind}`}. ${right.length} right, ${wrong.length} wrong.`);
  }

  $("undo").addEventListener("click", () => {
    marks = undone.pop() ?? new Map();
    paint();
    say(`Undone. ${$("marks-text").textContent}.`);
    if ($("marks").hidden) $("title").focus({ preventScroll: true });
  });
  $("again").addEventListener("click", () => again(ids()));

  return {
    toggle,
    // The marks that the address has are where one starts from.
    show(right, wrong) {
      marks = new Map([...right.map((id) => [id, "right"]), ...wrong.map((id) => [id, "wrong"])]);
      undone.length = 0;
      paint();
    },
  };
}
