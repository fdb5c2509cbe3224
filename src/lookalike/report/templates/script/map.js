// The map: points, the picture under the pointer, one class singled out.
eachBlock("map", (map, on, block) => {
  const group = `map-${on}`;
  const { sheet, numbers, layouts, titles, names } = map;
  const showThumb = (element, point, side) => {
    const column = point % sheet.columns, row = Math.floor(point / sheet.columns);
    Object.assign(element.style, {
      width: `${side}px`, height: `${side}px`, backgroundImage: `url(${sheet.uri})`,
      backgroundSize: `${sheet.columns * side}px ${sheet.rows * side}px`,
      backgroundPosition: `${-column * side}px ${-row * side}px`,
      imageRendering: block.tiny ? "pixelated" : "auto",
    });
  };

  const plane = byId(`plane-${on}`), hint = byId(`hint-${on}`), select = byId(`class-${on}`);
  const single = () => (select.value === "" ? null : Number(select.value));
  let listening = false;

  const drawMap = () => {
    const flat = layouts[chosen(group)], only = single();
    const palette = Array.from({ length: page.classColours }, (_, number) => colour(`k${number}`));
    const faded = (number) => only !== null && number !== only;
    const points = {
      ...flat, mode: "markers", hoverinfo: "none", type: "scatter", cliponaxis: false,
      marker: {
        size: numbers.map((number) => (number === only ? 13 : 10)),
        color: numbers.map((number) => palette[number % palette.length]),
        symbol: numbers.map((number) => CLASS_SYMBOLS[Math.floor(number / palette.length) % CLASS_SYMBOLS.length]),
        opacity: numbers.map((number) => (faded(number) ? 0.12 : 0.92)),
        line: { width: 1, color: colour("raised") },
      },
    };
    const bare = axis({
      showgrid: false, showticklabels: false, range: [-1.06, 1.06], fixedrange: false, automargin: false,
    });
    // A finger must be able to scroll past the map, a mouse may zoom into it.
    const dragmode = matchMedia("(pointer: fine)").matches ? "zoom" : false;
    plot(plane, [points], layout({ xaxis: bare, yaxis: bare, dragmode, margin: { l: 0, r: 0, t: 0, b: 0 } }));
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
    const only = single(), pictures = byId(`class-pictures-${on}`);
    pictures.replaceChildren();
    byId(`class-title-${on}`).textContent = only === null
      ? "Point at the map to see a picture; choose a class to single it out." : titles[only];
    numbers.forEach((number, point) => {
      if (number === only) showThumb(pictures.appendChild(Object.assign(document.createElement("span"), { className: "thumb" })), point, 64);
    });
    drawMap();
  };
  select.addEventListener("change", showClass);
  onChoice(group, () => { hint.hidden = true; drawMap(); });
  drawWhenNear(plane, drawMap);
});
