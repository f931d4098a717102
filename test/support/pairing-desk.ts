/** Owns the words with which an operator pairs machines, over a room of nodes; each from an address of its own. */
import type { LemonError } from "../../protocol/errors.ts";
import { nodePairRequest } from "../../protocol/methods/enrolment.ts";
import type { InputOf, ParamsOf } from "../../protocol/methods.ts";
import { readParams } from "../../protocol/params.ts";
import { type NodesRoom, operator } from "./nodes-room.ts";

/** What a refusal says to whoever reads the wire. */
export const said = (refusal: LemonError): string => `${refusal.wire} ${refusal.message}`;

/** `room`: the one of the test that runs. */
export function pairingDesk(room: () => NodesRoom) {
  const methods = () => room().nodes.methods;
  return {
    request: (changes: Partial<InputOf<"node.pair.request">> = {}) =>
      methods()["node.pair.request"](
        readParams(nodePairRequest, {
          nodeType: "coding_agent",
          nodeName: "worker-1",
          ...changes,
        }) as ParamsOf<"node.pair.request">,
        operator(),
      ),
    approve: (pairingId: string) => methods()["node.pair.approve"]({ pairingId }, operator()),
    reject: (pairingId: string) => methods()["node.pair.reject"]({ pairingId }, operator()),
    verify: (code: string) => methods()["node.pair.verify"]({ code }, operator()),
    list: async () => (await methods()["node.pair.list"]({}, operator())).requests,
  };
}
