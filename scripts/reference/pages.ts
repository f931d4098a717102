/** Owns the list of what is generated: each file of `docs/reference/` and its text. */
import { openApiDocument } from "../../protocol/host-agent/openapi.ts";
import { asyncApi } from "./asyncapi.ts";
import { cliPage } from "./cli-page.ts";
import { errorsPage } from "./errors-page.ts";
import { eventsPage } from "./events-page.ts";
import { hostAgentPage } from "./host-agent-page.ts";
import { httpPage } from "./http-page.ts";
import { methodsPage } from "./methods-page.ts";

/** File name to text. The same on every machine and at every width of a terminal. */
export async function referencePages(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ["asyncapi.json", `${JSON.stringify(asyncApi(), null, 2)}\n`],
    ["cli.md", await cliPage()],
    ["errors.md", errorsPage()],
    ["events.md", eventsPage()],
    ["host-agent.md", hostAgentPage()],
    ["host-agent.openapi.json", `${JSON.stringify(openApiDocument(), null, 2)}\n`],
    ["http.md", httpPage()],
    ["methods.md", methodsPage()],
  ]);
}
