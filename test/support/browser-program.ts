/**
 * Program: uses the SDK as a page in a browser has it. Nothing but `client/`, `protocol/` and zod can be
 * loaded, no module of Node and (nearly) none of its globals is there, and the socket is the platform's
 * `WebSocket`.
 * Prints what it met as one JSON document.
 */
import { registerHooks } from "node:module";

const [url = "", token = "", nodeId = ""] = process.argv.slice(2);
const root = new URL("../../", import.meta.url).href;
const loaded: string[] = [];

registerHooks({
  resolve(specifier, context, next) {
    const resolved = next(specifier, context);
    const path = resolved.url.startsWith(root) ? resolved.url.slice(root.length) : resolved.url;
    // The tests may run where node_modules is a link.
    if (!/^(client|protocol)\/|\/node_modules\/zod\/|^node_modules\/zod\//.test(path))
      throw new Error(`a browser has no ${specifier}`);
    loaded.push(path);
    return resolved;
  },
});
// Node's own WebSocket needs its Buffer and clearImmediate; that we do not, the compiler says.
for (const name of ["process", "global", "setImmediate", "require"])
  Reflect.deleteProperty(globalThis, name);

const refused = await import("node:fs").then(
  () => null,
  (error: unknown) => (error instanceof Error ? error.message : String(error)),
);

const { CallError, connect, isEvent } = await import("../../client/index.ts");

const lemon = await connect({
  url,
  token,
  clientId: "page",
  reconnect: { firstMs: 1, maxMs: 1, resetAfterMs: 1 },
});
const events = lemon.events();
const health = await lemon.call("health", {});
const told: string[] = [];

async function uncertainRun(): Promise<unknown> {
  try {
    return await lemon.call("node.process.run", {
      nodeId,
      processId: "page:1",
      cwd: ".",
      argv: ["true"],
      stdinBase64: "",
      timeoutMs: 1_000,
      maxOutputBytes: 1,
    });
  } catch (error) {
    if (!(error instanceof CallError) || error.settledBy === null) throw error;
    told.push(error.code);
    await lemon.ready();
    return lemon.call(error.settledBy.method, error.settledBy.params);
  }
}

const receipt = await uncertainRun();
for await (const event of events) {
  if ("missed" in event) told.push(event.missed);
  else if (told.includes("reconnected") && isEvent(event, "presence")) {
    told.push(String(event.payload.connections[0]?.client_id));
    break;
  }
}
lemon.close();
await lemon.ended;
console.log(JSON.stringify({ refused, ok: health.ok, receipt, told, modules: loaded.length }));
