/** Owns the question to the nodes for their supervision trees. */
import { LemonError } from "../../protocol/errors.ts";
import { supervisionTree } from "../../protocol/methods/system.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { NODE_TREE } from "../../protocol/node-link.ts";
import type { Directory } from "./directory.ts";
import type { Fleet } from "./fleet.ts";
import type { NodeRecord } from "./record.ts";

/** One process's tree, or why it is not there: a classification, never a missing row. */
export type NodeTree = ResultOf<"supervision.tree">["trees"][number];

/** A tree that takes longer helps nobody who looks at it now. */
const TREE_DEADLINE_MS = 5_000;
const TREE_ANSWER_BYTES = 1024 * 1024;
const treeShape = supervisionTree.result.shape.trees.element.shape.tree;

/** The trees of every node that is not offline, or of the one selected. Throws `node_not_found`. */
export async function nodeTrees(
  fleet: Fleet,
  directory: Directory,
  selector?: string,
): Promise<NodeTree[]> {
  const asked =
    selector === undefined
      ? // The local node stands in the tree of the control plane itself; one without a worker has none.
        directory
          .all()
          .filter(
            ({ nodeId, local, life }) =>
              !local && life !== null && fleet.live(nodeId).status !== "offline",
          )
      : [directory.resolve(selector)];
  return await Promise.all(asked.map((record) => treeOf(fleet, record)));
}

async function treeOf(fleet: Fleet, { nodeId, name }: NodeRecord): Promise<NodeTree> {
  try {
    const answer = await fleet.call(nodeId, {
      method: NODE_TREE,
      params: {},
      capability: null,
      mutation: false,
      deadlineMs: TREE_DEADLINE_MS,
      answerBytes: TREE_ANSWER_BYTES,
    });
    const read = treeShape.safeParse(answer);
    if (!read.success || read.data === null) throw new LemonError("invalid_remote_payload");
    return { source: nodeId, name, tree: read.data, error: null };
  } catch (error) {
    if (!(error instanceof LemonError)) throw error;
    return { source: nodeId, name, tree: null, error: error.code };
  }
}
