/** The command `lemon`: importing this file runs it. */
import { lemon } from "./program.ts";
import { processShell } from "./shell.ts";

// Every byte has left when the command has ended; what is still open (a closing handshake with a silent
// peer, a terminal) is nothing to wait for.
process.exit(await lemon(process.argv.slice(2), processShell()));
