// Light or dark: as the system says, until the button is pressed.
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkSystem.matches);
const recolour = () => {
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
  drawn.forEach((draw) => draw());
};
byId("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  recolour();
});
darkSystem.addEventListener("change", recolour);
recolour();
