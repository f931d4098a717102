/** Owns which node is meant by what the user typed. */
import type { Client } from "../../client/index.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { printable } from "../printable.ts";

export type NodeRow = ResultOf<"node.list">["nodes"][number];

/**
 * The enrolled node with this durable id, else with this unique name. Everything that is sent or
 * printed afterwards names the id: a name can be given to another node meanwhile.
 */
export async function selectNode(client: Client, selector: string): Promise<NodeRow> {
  const { nodes } = await client.call("node.list", {});
  const name = selector.trim().normalize("NFC");
  const found =
    nodes.find((node) => node.nodeId === selector) ?? nodes.find((node) => node.name === name);
  if (found === undefined)
    throw new LemonError("node_not_found", {
      message: `No enrolled node has the id or name ${printable(selector)}`,
    });
  return found;
}
