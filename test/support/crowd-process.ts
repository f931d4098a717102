/**
 * A crowd of clients in a process of its own: opens so many sockets of `/ws` at a port, connects each as the
 * operator, says how many stand, and holds them until its parent leaves.
 */
import { OPCODE, operator, RawClient, wsFrame } from "./ws-client.ts";

const [port, count] = process.argv.slice(2).map(Number);
if (port === undefined || count === undefined) throw new Error("crowd-process PORT COUNT");
process.once("disconnect", () => process.exit());

const params = operator();
const CONNECT = wsFrame(
  OPCODE.text,
  JSON.stringify({ type: "req", id: "c", method: "connect", params }),
);
/** So many at a time, so that a start is not a flood of SYNs that the system drops. */
const AT_A_TIME = 500;

let admitted = 0;
for (let begun = 0; begun < count; begun += AT_A_TIME) {
  const batch = Array.from({ length: Math.min(AT_A_TIME, count - begun) }, async () => {
    const raw = await RawClient.upgrade(port);
    raw.socket.write(CONNECT);
    if ((await raw.until("hello-ok")).includes("hello-ok")) admitted += 1;
  });
  await Promise.all(batch);
}
process.send?.({ admitted });
