/**
 * Gives every test the nats-server that the program itself would take: `LEMON_NATS_SERVER` is set to
 * its absolute path before any test file is read. Without one no test is run. What a test makes has the
 * usual modes, whoever runs it.
 */
import { findNatsServer } from "../../scripts/nats-server.mjs";

const server = await findNatsServer();
if (!server.found) {
  console.error(`the tests need a nats-server: ${server.message}; run: node scripts/setup.mjs`);
  process.exit(1);
}
process.env["LEMON_NATS_SERVER"] = server.path;
process.umask(0o022);
