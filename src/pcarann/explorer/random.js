// Counter-based uniform numbers: those of `pcarann.backend.random`, bit by bit.
//
//     z ← key + (i + 1) · 0x9E3779B97F4A7C15
//     z ← (z ⊕ z ≫ 30) · 0xBF58476D1CE4E5B9
//     z ← (z ⊕ z ≫ 27) · 0x94D049BB133111EB
//     u = ((z ⊕ z ≫ 31) ≫ 11) · 2⁻⁵³
//
// all modulo 2⁶⁴. A word is two halves of 32 bits here, so that hidden weights need not be in a page.

const HALF = 2 ** 32;
const GOLDEN = [0x9e3779b9, 0x7f4a7c15];
const FIRST = [0xbf58476d, 0x1ce4e5b9];
const SECOND = [0x94d049bb, 0x133111eb];

/** Numbers uniform in [low, high) of the stream with this key, its upper and lower half. */
export function uniform(size, [upper, lower], low, high) {
  const numbers = new Float64Array(size);
  const scale = 2 ** -53 * (high - low);
  let [top, bottom] = [upper, lower];
  for (let i = 0; i < size; i++) {
    const sum = bottom + GOLDEN[1];
    top = (top + GOLDEN[0] + (sum >= HALF ? 1 : 0)) >>> 0;
    bottom = sum >>> 0;

    let lo = (bottom ^ ((bottom >>> 30) | (top << 2))) >>> 0;
    let hi = (top ^ (top >>> 30)) >>> 0;
    hi = upperProduct(hi, lo, FIRST[0], FIRST[1]);
    lo = Math.imul(lo, FIRST[1]) >>> 0;

    lo = (lo ^ ((lo >>> 27) | (hi << 5))) >>> 0;
    hi = (hi ^ (hi >>> 27)) >>> 0;
    hi = upperProduct(hi, lo, SECOND[0], SECOND[1]);
    lo = Math.imul(lo, SECOND[1]) >>> 0;

    lo = (lo ^ ((lo >>> 31) | (hi << 1))) >>> 0;
    hi = (hi ^ (hi >>> 31)) >>> 0;
    numbers[i] = ((hi >>> 11) * HALF + (((hi << 21) | (lo >>> 11)) >>> 0)) * scale + low;
  }
  return numbers;
}

/** The upper half of (hi · 2³² + lo) · (chi · 2³² + clo) modulo 2⁶⁴. */
function upperProduct(hi, lo, chi, clo) {
  const [a, b, c, d] = [lo >>> 16, lo & 0xffff, clo >>> 16, clo & 0xffff];
  const middle = a * d + ((b * d) >>> 16);
  const carried = a * c + Math.floor(middle / 65536) + Math.floor(((middle % 65536) + b * c) / 65536);
  return (carried + Math.imul(hi, clo) + Math.imul(lo, chi)) >>> 0;
}
