/**
 * The file helper: running this module is serving the file service that started it. What it gets was read
 * against its declaration there.
 */
import { adoptRoots, type RootNames } from "../../host/allowed-roots.ts";
import { type FileOperations, fileOperations } from "../../host/files/operations.ts";
import { serveIsolated } from "../../supervision/isolated-child.ts";
import type { Operation } from "./operation.ts";

serveIsolated((opening, anchors) => {
  const files = fileOperations(adoptRoots(opening as RootNames, anchors));
  return (request) => perform(files, request as Operation);
});

function perform(files: FileOperations, operation: Operation): unknown {
  switch (operation.method) {
    case "list":
      return files.list(operation.request);
    case "stat":
      return files.stat(operation.request);
    case "read":
      return files.read(operation.request);
    case "write":
      return files.write(operation.request);
    case "mkdir":
      return files.mkdir(operation.request);
    case "move":
      return files.move(operation.request);
    case "preview":
      return files.preview(operation.request);
    case "delete":
      return files.delete(operation.request);
  }
}
