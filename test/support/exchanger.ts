/**
 * Owns a program that exchanges pairs of names as fast as it can (renameat2(2), RENAME_EXCHANGE), one pair
 * at random after the other. Arguments: the names, two by two. It says `ready`, goes on until its input
 * ends, and says how often it exchanged.
 */
import { native } from "../../host/native/library.ts";

const AT_FDCWD = -100;
const RENAME_EXCHANGE = 2;
const BATCH = 256;

const renameat2 = native("int renameat2(int, const char *, int, const char *, unsigned int)");
const names = process.argv.slice(2);

let exchanged = 0;
let ended = false;

function exchange(): void {
  for (let n = 0; n < BATCH; n += 1) {
    const at = 2 * Math.floor((Math.random() * names.length) / 2);
    const [one = "", other = ""] = names.slice(at, at + 2);
    // A name may be gone for a moment, with a parent that another pair exchanged.
    if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) === 0) exchanged += 1;
  }
  if (ended) process.stdout.write(`${exchanged}\n`);
  else setImmediate(exchange);
}

process.stdin.on("end", () => {
  ended = true;
});
process.stdin.resume();
process.stdout.write("ready\n");
exchange();
