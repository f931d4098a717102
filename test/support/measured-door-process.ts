/** The far side of `measured-door.ts`: serves the test gateway, and says what it takes of memory. */
import { testGateway } from "./gateway.ts";

const MIB = 1_048_576;
const gateway = await testGateway({
  ...JSON.parse(process.argv[2] ?? "{}"),
  handlers: {
    // An answer of one mebibyte.
    "node.pair.list": () => ({ requests: [], summary: { pad: "x".repeat(MIB) } }),
  },
});

process.on("message", () => {
  globalThis.gc?.();
  process.send?.({
    peakBytes: process.resourceUsage().maxRSS * 1_024,
    residentBytes: process.memoryUsage.rss(),
    connections: gateway.connections(),
    sessions: gateway.roster.counts().active,
  });
});
process.send?.({ port: gateway.port });
process.once("disconnect", () => process.exit());
