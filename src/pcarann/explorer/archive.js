/* The format .npz of NumPy: a zip archive of .npy files, each stored as it is or deflated. */

const [END, ENTRY, ENTRY_LENGTH, LOCAL_LENGTH] = [0x06054b50, 0x02014b50, 46, 30];
const LONGEST_REMARK = 0xffff;

/** {name: bytes} of an archive, names as the archive has them. */
export async function unzipped(buffer) {
  const view = new DataView(buffer);
  const end = endOf(view);
  const found = Object.create(null);
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    if (at + ENTRY_LENGTH > view.byteLength || view.getUint32(at, true) !== ENTRY) throw new Error("its list of arrays is broken");
    const [name, extra, remark] = [28, 30, 32].map((place) => view.getUint16(at + place, true));
    const called = new TextDecoder().decode(buffer.slice(at + ENTRY_LENGTH, at + ENTRY_LENGTH + name));
    found[called] = await content(view, at);
    at += ENTRY_LENGTH + name + extra + remark;
  }
  return found;
}

function endOf(view) {
  for (let at = view.byteLength - 22; at >= Math.max(0, view.byteLength - 22 - LONGEST_REMARK); at--)
    if (view.getUint32(at, true) === END) return at;
  throw new Error("it is no .npz file, or cut short");
}

async function content(view, entry) {
  const [method, size, start] = [view.getUint16(entry + 10, true), view.getUint32(entry + 20, true), view.getUint32(entry + 42, true)];
  if (start + LOCAL_LENGTH > view.byteLength) throw new Error("it is cut short");
  const from = start + LOCAL_LENGTH + view.getUint16(start + 26, true) + view.getUint16(start + 28, true);
  if (from + size > view.byteLength) throw new Error("it is cut short, or larger than 4 GB");
  const bytes = view.buffer.slice(from, from + size);
  if (method === 0) return bytes;
  if (method !== 8) throw new Error("it is packed in a way that is not known here");
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
}
