// A drawing as the network was trained to see it.

const GRID = 32;

/**
 * The drawing, cut out and scaled to 32 × 32 points, of which blocks of 4 × 4 are counted: 64 numbers between 0 and 1, as in the "Optical
 * Recognition of Handwritten Digits" data set. Null where nothing is drawn.
 */
export function pixelsOf({ data, width, height }) {
  const inked = (x, y) => data[4 * (y * width + x) + 3] > 127;
  let [left, right, top, bottom] = [width, -1, height, -1];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (inked(x, y)) [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
    }
  }
  if (right < 0) return null;
  // The larger side fills the grid; a small blot is not blown up.
  const size = Math.max(right - left + 1, bottom - top + 1, 96);
  const [x0, y0] = [(left + right + 1 - size) / 2, (top + bottom + 1 - size) / 2];
  const pixels = new Float32Array(64);
  for (let row = 0; row < GRID; row++) {
    for (let column = 0; column < GRID; column++) {
      const x = Math.floor(x0 + (column + 0.5) * size / GRID);
      const y = Math.floor(y0 + (row + 0.5) * size / GRID);
      if (x >= 0 && x < width && y >= 0 && y < height && inked(x, y)) pixels[(row >> 2) * 8 + (column >> 2)] += 1 / 16;
    }
  }
  return pixels;
}
