// The map: points, the picture under the pointer, one class singled out.
Object.entries(page.maps).forEach(([on, { figure, pictures, numbers, layouts, titles, names, tiny }]) => {
  const group = `map-${on}`;
  const plane = byId(`plane-${on}`), hint = byId(`hint-${on}`), select = byId(`class-${on}`);
  const single = () => (select.value === "" ? null : Number(select.value));
  const showThumb = (element, point, side) => Object.assign(element.style, {
    width: `${side}px`, height: `${side}px`, backgroundImage: `url(${pictures[point]})`,
    imageRendering: tiny ? "pixelated" : "auto",
  });

  let listening = false;
  const drawMap = () => {
    const shown = inTheme(figure), only = single();
    Object.assign(shown.data[0], layouts[chosen(group)]);
    shown.data[0].marker.size = numbers.map((number) => (number === only ? 13 : 10));
    shown.data[0].marker.opacity = numbers.map((number) => (only === null || number === only ? 0.92 : 0.12));
    // A finger must be able to scroll past the map, a mouse may zoom into it.
    shown.layout.dragmode = matchMedia("(pointer: fine)").matches ? "zoom" : false;
    plot(plane, shown);
    plane.setAttribute("aria-label", `Map of test embeddings of ${names[chosen(group)]}`);
    if (!listening) {
      listening = true;
      plane.on("plotly_hover", ({ points: [point] }) => showHint(point));
      plane.on("plotly_unhover", () => { hint.hidden = true; });
    }
  };

  const showHint = (point) => {
    showThumb(hint.querySelector(".thumb"), point.pointNumber, 96);
    hint.querySelector(".text").textContent = titles[numbers[point.pointNumber]];
    hint.hidden = false;
    const { x0, x1, y0 } = point.bbox;
    const room = plane.clientWidth - hint.offsetWidth - 4;
    const besides = x1 + 10 <= room ? x1 + 10 : x0 - hint.offsetWidth - 10;
    hint.style.left = `${Math.max(4, Math.min(besides, room))}px`;
    hint.style.top = `${Math.max(4, Math.min(y0 - 40, plane.clientHeight - hint.offsetHeight - 4))}px`;
  };

  const showClass = () => {
    const only = single(), place = byId(`class-pictures-${on}`);
    place.replaceChildren();
    byId(`class-title-${on}`).textContent = only === null
      ? "Point at the map to see a picture; choose a class to single it out." : titles[only];
    numbers.forEach((number, point) => {
      if (number === only) showThumb(place.appendChild(Object.assign(document.createElement("span"), { className: "thumb" })), point, 64);
    });
    drawMap();
  };
  select.addEventListener("change", showClass);
  onChoice(group, () => { hint.hidden = true; drawMap(); });
  drawWhenNear(plane, drawMap);
});
