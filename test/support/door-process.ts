/** A process of its own that serves the test gateway, tells its port to its parent, and ends with it. */
import { testGateway } from "./gateway.ts";

const gateway = await testGateway();
process.send?.({ port: gateway.port });
process.once("disconnect", () => process.exit());
