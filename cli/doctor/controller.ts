/**
 * Owns the doctor's look at a controller and its nodes, over the connection any command uses, and over
 * HTTP what needs no token: its clock, and what it misses for its work.
 */
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { z } from "zod";
import { type Client, ConnectError, connect } from "../../client/index.ts";
import { trustingAgent } from "../../client/node/socket.ts";
import { LemonError } from "../../protocol/errors.ts";
import { LEMON_VERSION } from "../../protocol/version.ts";
import { connectAdvice } from "../connect-advice.ts";
import { connectOptions, trustOf } from "../dial.ts";
import { UsageError } from "../exit.ts";
import { receiptsWarning } from "../node/show.ts";
import { durationText } from "../printable.ts";
import type { Shell } from "../shell.ts";
import { resolveTarget, type Target, type TargetFlags } from "../target.ts";
import { checkCertificate } from "./certificate.ts";
import { type Finding, fail, ok, warn } from "./check.ts";
import { checkControllersVault, checkNodesVault } from "./secrets.ts";

/** `required`: the user named a controller, so that none there is a failure. */
export async function* checkController(
  shell: Shell,
  flags: TargetFlags,
  required: boolean,
): AsyncGenerator<Finding> {
  const name = "controller";
  let target: Target;
  try {
    target = await resolveTarget(shell, flags);
  } catch (error) {
    if (!(error instanceof LemonError) || (error instanceof UsageError && required)) throw error;
    yield unresolved(error);
    return;
  }
  if (target.warning !== null) yield warn("encryption", target.warning, "use wss://");
  const certificate = await checkCertificate(target.url, Date.now());
  if (certificate !== null) yield certificate;
  yield await checkClock(target);

  let client: Client;
  try {
    client = await connect(connectOptions(shell, target));
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    yield fail(name, `${target.url}: ${error.message}`, mendOf(error));
    return;
  }
  try {
    yield await checkVersion(client, target);
    const missing = await missingParts(target);
    yield* missing.map(checkPart);
    yield await checkControllersVault(client);
    yield* checkNodes(client, !missing.includes("hub"));
  } catch (error) {
    if (!(error instanceof LemonError)) throw error;
    yield fail(name, `${target.url} does not answer (${error.code})`, "see the controller's log");
  } finally {
    client.close();
  }
}

/** Why it is not known which controller to look at; the finding and its mend in words of their own. */
function unresolved(error: LemonError): Finding {
  if (error.code === "unavailable")
    return warn(
      "controller",
      "none runs here",
      "start one with `lemon up`, or name one with --controller",
    );
  const mend =
    error.code === "operator_token_unusable"
      ? "chmod 600 that file and 700 its folder if they are yours, or give the token with LEMON_WS_TOKEN"
      : "name one with --controller";
  return warn(
    "controller",
    error.message,
    error instanceof UsageError ? (error.hint ?? mend) : mend,
  );
}

function mendOf(error: ConnectError): string {
  return connectAdvice(error) ?? "start it, or check the address, the port and what stands between";
}

async function checkVersion(client: Client, target: Target): Promise<Finding> {
  const startedAt = performance.now();
  await client.call("health", {});
  const roundTrip = `answers in ${(performance.now() - startedAt).toFixed(1)} ms`;
  const { version } = client.hello;
  return version === LEMON_VERSION
    ? ok("controller", `${target.url}, ${version}, ${roundTrip}`)
    : warn(
        "controller",
        `${target.url} runs ${version}, this command is ${LEMON_VERSION}`,
        "bring both to the same version",
      );
}

/** Credentials of the link live by the clock: from here on it is worth a word, from there it breaks. */
const SKEW_WARN_MS = 5_000;
const SKEW_FAIL_MS = 300_000;
/** How long `/healthz` and `/readyz` may take to answer. */
const HTTP_MS = 5_000;
/** Of their bodies, in characters. A longer answer is none of a controller. */
const LONGEST_ANSWER = 65_536;

/** Compares the wall clocks by the `Date` of an answer (RFC 9110 6.6.1), which is good to a second. */
async function checkClock(target: Target): Promise<Finding> {
  const name = "clock";
  const sentAtMs = Date.now();
  const date = await dateOf(target);
  if (date === null)
    return warn(name, "could not be compared with the controller's", "see the controller below");
  // The header is cut to whole seconds: half of one is the best guess.
  const skewMs = Math.abs(date + 500 - (sentAtMs + Date.now()) / 2);
  const finding = `${durationText(skewMs)} from the controller's`;
  const mend = "let a time service (NTP) set both clocks";
  if (skewMs > SKEW_FAIL_MS) return fail(name, finding, mend);
  return skewMs > SKEW_WARN_MS
    ? warn(name, finding, mend)
    : ok(name, "agrees with the controller's");
}

async function dateOf(target: Target): Promise<number | null> {
  const { date } = (await get(target, "/healthz")) ?? {};
  const ms = Date.parse(date ?? "");
  return Number.isNaN(ms) ? null : ms;
}

interface Answer {
  readonly date: string | undefined;
  readonly body: string;
}

/** What the controller answers to a read beside `/ws`, whatever its status; null when it does not. */
async function get({ url, ...trust }: Target, path: string): Promise<Answer | null> {
  const address = url.replace(/^ws/, "http").replace(/\/ws$/, path);
  const signal = AbortSignal.timeout(HTTP_MS);
  const request = address.startsWith("https:")
    ? httpsRequest(address, { signal, agent: trustingAgent(trustOf(trust)) })
    : httpRequest(address, { signal });
  try {
    request.end();
    const [response]: IncomingMessage[] = await once(request, "response");
    if (response === undefined) return null;
    response.setEncoding("utf8");
    let body = "";
    for await (const text of response) {
      body += text;
      if (body.length > LONGEST_ANSWER) return null;
    }
    return { date: response.headers.date, body };
  } catch {
    return null;
  } finally {
    request.destroy();
  }
}

const unready = z.object({
  error: z.object({ details: z.object({ missing: z.array(z.string()) }) }),
});

/** What each part that a controller can miss means (docs/sre.md, `/readyz`). */
const MISSING: Readonly<Record<string, (name: string) => Finding>> = {
  hub: (name) =>
    fail(
      name,
      "it can not reach its hub, so it can ask no node",
      "a nats-server of its own is started again within seconds: if this stays, see the controller's log for `nats-server` and the disk under its state folder; with --nats, look after that system and the way to it",
    ),
  documents: (name) =>
    fail(
      name,
      "its store of nodes does not answer",
      "see the controller's log, and the disk of its hub",
    ),
  stopping: (name) => warn(name, "it is ending", "wait for its end, then start it again"),
};

/** Empty when it is ready, or too old to say. */
async function missingParts(target: Target): Promise<readonly string[]> {
  const answer = await get(target, "/readyz");
  if (answer === null) return [];
  return unready.safeParse(parsed(answer.body)).data?.error.details.missing ?? [];
}

function checkPart(part: string): Finding {
  const name = `controller's ${part}`;
  return MISSING[part]?.(name) ?? fail(name, "it misses this", "see the controller's log");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function* checkNodes(client: Client, hasHub: boolean): AsyncGenerator<Finding> {
  const { nodes } = await client.call("node.list", {});
  if (nodes.length === 0) {
    yield warn("nodes", "none is enrolled", "join one with `lemon node join`");
    return;
  }
  for (const { nodeId, name, capabilities } of nodes) {
    try {
      const found = await checkNode(client, nodeId, hasHub);
      yield found;
      const isServed = found.level === "ok" && "node.secrets.list" in capabilities;
      const vault = isServed
        ? await checkNodesVault(client, nodeId, `${found.name}'s vault`)
        : null;
      if (vault !== null) yield vault;
    } catch (error) {
      if (!(error instanceof LemonError)) throw error;
      yield fail(`node ${name}`, `can not be asked (${error.code})`, "see the controller's log");
    }
  }
}

async function checkNode(client: Client, nodeId: string, hasHub: boolean): Promise<Finding> {
  const node = await client.call("node.describe", { nodeId });
  const { receiptStore, receipts, lemonVersion, local, revoked } = node.metadata;
  const name = `node ${node.name}`;
  if (revoked === true)
    return warn(name, "revoked", "join it again with an operator token and --repair, or remove it");
  // Without a hub a node that is well falls silent too.
  if (node.status === "unknown" || (node.status === "offline" && !hasHub))
    return warn(
      name,
      `${node.status}: the controller can not ask it, which says nothing about the node`,
      "mend what the controller misses; just after its start, ask again in a moment",
    );
  if (node.status !== "online")
    return warn(
      name,
      node.status,
      local === true
        ? "it is a part of its controller: look at that one's log"
        : "start its worker with `lemon node join`, or look at its log",
    );
  if (receiptStore !== null && receiptStore !== "ready")
    return fail(
      name,
      `admits no work: ${receiptStore}`,
      (local === true ? LOCAL_STORE_MENDS : STORE_MENDS)[receiptStore] ?? "see its log",
    );
  const spent = receiptsWarning(receipts);
  if (spent !== null) return warn(name, spent.replace("warning: ", ""), "join a successor");
  if (lemonVersion !== null && lemonVersion !== LEMON_VERSION)
    return warn(name, `runs ${lemonVersion}`, `bring it to ${LEMON_VERSION}`);
  return ok(name, "online, its receipt store is proven to sync");
}

const STORE_MENDS: Readonly<Record<string, string>> = {
  durability_unproven: "its nats-server must sync always: at least 2.12.7, with our own settings",
  receipt_store_damaged: "join it again under a new id; its disk was wiped, restored or damaged",
  receipt_store_unavailable: "its nats-server does not answer: look at its log",
  no_space: "free space on its disk",
};

const LOCAL_STORE_MENDS: Readonly<Record<string, string>> = {
  ...STORE_MENDS,
  receipt_store_damaged:
    "remove it with `lemon node remove` and start `lemon up` again, which begins a new one; its disk was wiped, restored or damaged",
};
