// What the pages that cut a model for answering share: the functions that helpers/figures/inference/token_price/decode_step.py has had traced from helpers/costs.
window.liveCuts = F => {
  // Every cut on these chips: the number of chips that share heads, and the function of a batch.
  function cuts(model, chip, [shape, n, ways], { w, cache, S }, price) {
    const [first, then] = model.at, W = chip.speeds[3], on = F[then](F[first](...model.sizes, ...chip.speeds, w, cache, price, S, n));
    return ways.map(Y => [Y, n / Y, on(Y, n / Y, ...F[chip.kind](W, ...shape, Y, n / Y))]);
  }
  return cuts;
};
