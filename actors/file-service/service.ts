/**
 * Owns files on a node: the door of `node.fs.*` (node-host-io.md, "File operations").
 *
 *   files             one_for_all
 *     service         the queue, and the tokens that stand
 *     helpers         one_for_one: the process that touches files, started again when it ends; and each that
 *                     was killed and that the system does not let end
 *     previews        one_for_one: an actor for each token
 *
 * 1. Every request is validated here again, whoever validated it before.
 * 2. The helper does one thing at a time; callers take turns, short requests before long ones (`queue.ts`).
 * 3. What the helper was at when it hung or ended is told as `filesystem_outcome_unknown`, all tokens are
 *    void, and what waits goes on with the next helper. Nothing is ever done twice.
 * 4. What waits longer than leaves the helper its whole deadline before the broker's is refused as not
 *    begun: so a request that was begun always has a certain answer, or an honest one.
 * 5. Nothing of paths, names or bytes is logged.
 */
import type { AllowedRoots } from "../../host/allowed-roots.ts";
import { FILE_BOUNDS, fileRequests } from "../../protocol/files.ts";
import { readRequest } from "../../protocol/params.ts";
import {
  type ActorRef,
  type ActorSpec,
  later,
  type SupervisorRef,
} from "../../supervision/actor.ts";
import {
  type IsolatedProtocol,
  isolatedProcess,
  type Outlived,
} from "../../supervision/isolated-process.ts";
import { type Deletion, Desk, type Preview, type PreviewRequest } from "./desk.ts";
import { type Asked, readOperation } from "./operation.ts";

export interface FileServiceDeps {
  /** Pinned, and to stay so as long as the service: every helper is handed these very directories. */
  readonly roots: Pick<AllowedRoots, "anchors" | "names">;
  /** The module that the helper runs. Default: the real one. */
  readonly helper?: URL;
}

/** Requests are what came over the link: anything. Errors: the table's. */
export interface FileService {
  call(method: keyof typeof fileRequests, request: unknown): Promise<unknown>;
}

/** From the source in a checkout, compiled in a package. */
const HELPER = new URL(
  import.meta.url.endsWith(".ts") ? "./helper.ts" : "./helper.js",
  import.meta.url,
);
const CALMLY = {
  strategy: "one_for_one",
  restart: "permanent",
  // The back-off alone keeps it far below: a file system that hangs again and again must not end the worker.
  intensity: { restarts: 60, windowMs: 60_000 },
  backoff: { firstMs: 100, maxMs: 10_000, resetAfterMs: 60_000 },
} as const;
/** As the broker has it (protocol/method.ts). */
const CALL = { deadlineMs: 30_000 } as const;

type ServiceProtocol = {
  operate: (asked: Asked) => unknown;
  preview: (request: PreviewRequest) => Preview;
  delete: (request: Deletion) => unknown;
  helperReady: (nothing: null) => void;
};

export async function startFileService(
  parent: SupervisorRef,
  { roots, helper = HELPER }: FileServiceDeps,
): Promise<FileService> {
  const room = await parent.startSupervisor({
    ...CALMLY,
    id: "files",
    // The queue, the helper and the tokens live and fall together.
    strategy: "one_for_all",
  });
  const helpers = Promise.withResolvers<ActorRef<IsolatedProtocol>>();
  const previews = Promise.withResolvers<SupervisorRef>();
  const service = await room.startActor(serviceActor(helpers.promise, previews.promise));
  previews.resolve(
    await room.startSupervisor({ ...CALMLY, id: "previews", stopOrder: "together" }),
  );
  const place = await room.startSupervisor({ ...CALMLY, id: "helpers" });
  const helperSpec = isolatedProcess({
    id: "helper",
    kind: "file-helper",
    entry: helper,
    opening: roots.names,
    inherited: roots.anchors,
    deadlineMs: FILE_BOUNDS.helperMs,
    onOutlived(process) {
      // A service that ends meanwhile shows nothing any more.
      place.startActor(outlivedActor(process)).catch(() => undefined);
    },
    onReady() {
      try {
        service.tell("helperReady", null);
      } catch {
        // The service is not there; when it is again, so is another helper.
      }
    },
  });
  let hasBegun = false;
  /** The helper is a process of 60 MB, so it begins with the first request. */
  const begin = (): void => {
    if (hasBegun) return;
    hasBegun = true;
    place.startActor(helperSpec).then(helpers.resolve, helpers.reject);
  };
  return {
    async call(method, raw) {
      begin();
      if (method === "preview") {
        return await service.ask("preview", readRequest(fileRequests.preview, raw), CALL);
      }
      if (method === "delete") {
        return await service.ask("delete", readRequest(fileRequests.delete, raw), CALL);
      }
      return await service.ask("operate", readOperation(method, raw), CALL);
    },
  };
}

/** So that the tree shows it for as long as it is there. */
function outlivedActor({ pid, ended }: Outlived): ActorSpec<Record<never, never>> {
  return {
    id: `hung-${pid}`,
    kind: "hung-file-helper",
    restart: "temporary",
    start({ end }) {
      void ended.then(end);
      return { handlers: {} };
    },
  };
}

function serviceActor(
  helper: Promise<ActorRef<IsolatedProtocol>>,
  previews: Promise<SupervisorRef>,
): ActorSpec<ServiceProtocol> {
  return {
    id: "service",
    kind: "file-service",
    restart: "permanent",
    start({ clock, watch }) {
      const desk = new Desk({ helper, previews, clock, watch });
      return {
        handlers: {
          operate: (asked) => later(desk.operate(asked)),
          preview: (request) => later(desk.preview(request)),
          delete: (request) => later(desk.delete(request)),
          helperReady: () => desk.helperReady(),
        },
        stop: () => desk.close(),
      };
    },
  };
}
