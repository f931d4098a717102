/**
 * Owns a reader of a stream that a test may kill: a process of its own, which sends each whole frame to its
 * parent as text. Its arguments: the socket, and the last event it knows, if any.
 */
import { request } from "node:http";

const [, , socketPath, lastEventId] = process.argv;
const headers = lastEventId === undefined ? {} : { "Last-Event-ID": lastEventId };
request({ socketPath: socketPath ?? "", path: "/", headers }, (response) => {
  let rest = "";
  response.setEncoding("utf8");
  response.on("data", (part: string) => {
    const frames = (rest + part).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) process.send?.(`${frame}\n\n`);
  });
}).end();
