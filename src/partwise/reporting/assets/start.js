function startTheme() {
  const button = byId("theme");
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const show = () => button.setAttribute("aria-pressed", String(dark()));
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    show();
  });
  show();
}

startTheme();
startParts();
startStructure();
startSamples();
startDiagnostics();
document.documentElement.dataset.ready = "yes";
