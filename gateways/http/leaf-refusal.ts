/** Owns how `/leafnode` refuses a link, in the words and the envelope of this port. */
import type { Duplex } from "node:stream";
import { type HttpAnswer, refusal, sendOnSocket } from "./answer.ts";
import { METHOD_NOT_ALLOWED, NOT_FOUND } from "./fixed-answers.ts";

const ANSWERS = {
  400: refusal(400, "INVALID_REQUEST", "This is no request for a NATS leaf link"),
  404: NOT_FOUND,
  405: METHOD_NOT_ALLOWED,
  426: refusal(426, "INVALID_REQUEST", "This path serves WebSocket connections of NATS leafs", {
    Upgrade: "websocket",
    "Sec-WebSocket-Version": "13",
  }),
  502: refusal(502, "UNAVAILABLE", "The hub does not take the link"),
  503: refusal(503, "UNAVAILABLE", "No link is taken now", { "Retry-After": "1" }),
  504: refusal(504, "TIMEOUT", "The hub did not answer in time"),
} as const satisfies Readonly<Record<number, HttpAnswer>>;

/** Answers and closes; what the other side still sends is not read. */
export function refuseLeaf(socket: Duplex, status: keyof typeof ANSWERS): void {
  sendOnSocket(socket, ANSWERS[status]);
}
