// The theme is set before anything is drawn, so that nothing flashes.
(() => {
  const saved = localStorage.getItem("tipcache.theme");
  if (saved) document.documentElement.dataset.theme = saved;
})();
