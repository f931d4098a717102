/** Owns the methods about the fleet: which nodes there are, what is known of them, and their ends. */
import { LemonError } from "../../protocol/errors.ts";
import { nodeHostInfo } from "../../protocol/methods/nodes.ts";
import type { ResultOf } from "../../protocol/methods.ts";
import { redacted, redactedMap } from "../../protocol/redaction.ts";
import type { ActorRef } from "../../supervision/actor.ts";
import type { MethodHandlers } from "../session/handler.ts";
import type { Directory } from "./directory.ts";
import type { Fleet } from "./fleet.ts";
import type { LiveNode } from "./node.ts";
import { type NodeRecord, refuseLocal } from "./record.ts";
import type { RegistryProtocol } from "./registry.ts";

export type FleetMethod =
  | "node.list"
  | "node.describe"
  | "node.rename"
  | "node.revoke"
  | "node.remove"
  | "node.host.info";

export interface FleetMethodsOptions {
  readonly fleet: Fleet;
  readonly directory: Directory;
  readonly registry: ActorRef<RegistryProtocol>;
}

const REGISTRY_DEADLINE = { deadlineMs: 20_000 } as const;

export function fleetMethods(options: FleetMethodsOptions): MethodHandlers<FleetMethod> {
  const { fleet, directory, registry } = options;
  const rowOf = (record: NodeRecord): NodeRow => row(record, fleet.live(record.nodeId));

  return {
    "node.list": () => {
      const nodes = directory.all().map(rowOf);
      return {
        nodes,
        summary: {
          nodeCount: nodes.length,
          statusCounts: counts(nodes.map(({ status }) => status)),
          typeCounts: counts(nodes.map(({ type }) => type)),
          capabilityCounts: counts(nodes.flatMap(({ capabilities }) => Object.keys(capabilities))),
        },
      };
    },

    "node.describe": ({ nodeId }) => {
      const record = directory.resolve(nodeId);
      const shown = rowOf(record);
      return {
        ...shown,
        metadata: metadata(record, fleet.live(record.nodeId)),
        summary: { status: shown.status, capabilityCount: Object.keys(shown.capabilities).length },
      };
    },

    "node.rename": async ({ nodeId, name }) => {
      const record = directory.resolve(nodeId);
      const ask = { nodeId: record.nodeId, name };
      const renamed = await registry.ask("rename", ask, REGISTRY_DEADLINE);
      return {
        nodeId: renamed.nodeId,
        name: renamed.name,
        renamed: true,
        summary: { nodeId: renamed.nodeId, renamed: true },
      };
    },

    "node.revoke": async ({ nodeId: selector }) => {
      const record = directory.resolve(selector);
      refuseLocal(record);
      await fleet.revoke(record.nodeId);
      return { nodeId: record.nodeId, revoked: true };
    },

    "node.remove": async ({ nodeId: selector }) => {
      // A removal that did not get to its end is no node any more, and is completed by its id.
      const unfinished = directory.known(selector);
      const { nodeId } = unfinished ?? directory.resolve(selector);
      await fleet.remove(nodeId);
      return { nodeId, removed: true };
    },

    "node.host.info": async ({ nodeId: selector }, caller) => {
      const { nodeId } = directory.resolve(selector);
      const answer = await fleet.call(nodeId, {
        method: nodeHostInfo.name,
        params: {},
        capability: nodeHostInfo.name,
        mutation: false,
        deadlineMs: nodeHostInfo.deadlineMs({ nodeId }),
        caller: caller.connectionId,
      });
      const read = nodeHostInfo.result.safeParse(answer);
      if (!read.success) {
        const harmless = { retrySafe: true, mutationMayHaveApplied: false };
        throw new LemonError("invalid_remote_payload", harmless);
      }
      return read.data;
    },
  };
}

type NodeRow = ResultOf<"node.list">["nodes"][number];

function row(record: NodeRecord, live: LiveNode): NodeRow {
  const { nodeId, name, type, life, pairedAtMs } = record;
  return {
    nodeId,
    name,
    type,
    capabilities: shownCapabilities(life?.capabilities ?? record.capabilities),
    status: live.status,
    pairedAtMs,
    lastSeenMs: live.lastSeenMs ?? record.lastSeenMs,
  };
}

/** Their names are methods and features, so a descriptor is shown whatever its name. */
function shownCapabilities(capabilities: NodeRecord["capabilities"]): NodeRow["capabilities"] {
  return Object.fromEntries(
    Object.entries(capabilities).map(([name, declared]) => [
      name,
      typeof declared === "string" ? redactedMap({ [name]: declared })[name] : redacted(declared),
    ]),
  );
}

function metadata(
  { generation, life, revoked, local }: NodeRecord,
  { ping }: LiveNode,
): ResultOf<"node.describe">["metadata"] {
  return {
    generation: generation === 0 ? null : generation,
    lemonVersion: ping?.lemonVersion ?? life?.lemonVersion ?? null,
    receipts: ping?.receipts ?? null,
    receiptStore: ping?.receiptStore ?? null,
    hostIo: ping?.hostIo ?? null,
    revoked,
    local,
  };
}

function counts(names: readonly string[]): Record<string, number> {
  const found = new Map<string, number>();
  for (const name of names) found.set(name, (found.get(name) ?? 0) + 1);
  return Object.fromEntries(found);
}
