/**
 * Program: a controller that enrols, serves, renames, revokes, repairs and removes a node on the hub and
 * keys it is given, says on its standard output what it acknowledged, and ends itself with SIGKILL after
 * its n-th word to the store or to the hub.
 *
 *   node fleet-program.ts FOLDER HUB-URL NAME
 *
 * It begins when a line with n arrives on its standard input.
 */
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect, jwtAuthenticator } from "@nats-io/transport-node";
import type { LinkAccounts } from "../../actors/node/link.ts";
import type { NodeRecord } from "../../actors/node/record.ts";
import type { Documents } from "../../transport/documents.ts";
import { openAuthority } from "../../transport/keys/authority.ts";
import { openNodeController } from "./node-controller.ts";
import { caller, opening, operator } from "./nodes-room.ts";

const [folder = "", servers = "", name = ""] = process.argv.slice(2);
const input = createInterface({ input: process.stdin });
const [line] = (await once(input, "line")) as [string];
input.close();

let left = Number(line);
let begun = false;
/** One word to the store or the hub, after which the end may come. */
async function word<T>(said: Promise<T>): Promise<T> {
  const answer = await said;
  if (begun) {
    left -= 1;
    if (left <= 0) process.kill(process.pid, "SIGKILL");
  }
  return answer;
}

const wrapDocuments = (documents: Documents<NodeRecord>): Documents<NodeRecord> => ({
  get: (key) => documents.get(key),
  list: () => documents.list(),
  create: (key, value) => word(documents.create(key, value)),
  update: (document, value) => word(documents.update(document, value)),
  delete: (document) => word(documents.delete(document)),
});
const wrapAccounts = (accounts: LinkAccounts): LinkAccounts => ({
  keepsStores: accounts.keepsStores,
  nodes: () => accounts.nodes(),
  connections: (node) => accounts.connections(node),
  issue: (node, key, options) => accounts.issue(node, key, options),
  provision: (kind) => word(accounts.provision(kind)),
  revoke: (node, keys) => word(accounts.revoke(node, keys)),
  remove: (node) => word(accounts.remove(node)),
});

function acknowledge(what: string, facts: Readonly<Record<string, unknown>> = {}): void {
  process.stdout.write(`${JSON.stringify({ what, ...facts })}\n`);
}

const authority = await openAuthority({
  keysFolder: join(folder, "keys"),
  recordsFolder: join(folder, "accounts"),
  resolverFolder: join(folder, "jwt"),
});
const controller = await openNodeController({
  connect: ({ jwt, seed }) => connect({ servers, authenticator: jwtAuthenticator(jwt, seed) }),
  authority,
  folder,
  wrapDocuments,
  wrapAccounts,
});
const { methods, sessionTokens } = controller.nodes;

async function pair(more: { readonly nodeId?: string; readonly repair?: boolean } = {}) {
  const asked = { nodeType: "coding_agent", nodeName: name, ...more };
  const { pairingId } = await methods["node.pair.request"](asked, operator());
  const { nodeId, challengeToken } = await methods["node.pair.approve"]({ pairingId }, operator());
  acknowledge("approved", { nodeId });
  const { token } = await methods["connect.challenge"]({ challenge: challengeToken }, operator());
  acknowledge("session");
  const identity = await sessionTokens.identify(token);
  if (identity === null || identity === "expired") throw new Error("refused");
  return { nodeId, session: caller(identity) };
}

begun = true;
const { nodeId, session } = await pair();
for (let life = 0; life < 2; life += 1) {
  const { generation } = await methods["node.link.open"](opening(), session);
  acknowledge("opened", { generation });
}
await methods["node.rename"]({ nodeId, name: `${name}-renamed` }, operator());
acknowledge("renamed");
await methods["node.revoke"]({ nodeId }, operator());
acknowledge("revoked");
const back = await pair({ nodeId, repair: true });
const { generation } = await methods["node.link.open"](opening(), back.session);
acknowledge("opened", { generation });
await methods["node.remove"]({ nodeId }, operator());
acknowledge("removed");
acknowledge("done");
await controller[Symbol.asyncDispose]();
