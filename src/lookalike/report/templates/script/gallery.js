// Choices that show one panel of several: methods of the gallery, tables, data sets.
new Set([...document.querySelectorAll(".panel")].map((panel) => panel.dataset.group)).forEach((group) =>
  onChoice(group, () => document.querySelectorAll(`.panel[data-group="${group}"]`).forEach((panel) => {
    panel.hidden = Number(panel.dataset.panel) !== chosen(group);
  })));

const showDataset = (number) => {
  document.querySelectorAll(".on").forEach((part) => { part.hidden = Number(part.dataset.on) !== number; });
  document.querySelectorAll("main > section").forEach((section) => {
    const parts = [...section.querySelectorAll(":scope > .on")];
    const empty = parts.every((part) => part.hidden || !part.children.length);
    section.hidden = parts.length > 0 && empty && !section.querySelector(":scope > .wide");
  });
};
if (page.blocks.length > 1) {
  onChoice("dataset", () => showDataset(chosen("dataset")));
  showDataset(0);
}
