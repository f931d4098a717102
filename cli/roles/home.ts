/**
 * Owns the layout of the state folder (`LEMON_HOME`): one folder a role identity, each with a lock of
 * its own, so that a controller and several nodes run side by side on one machine.
 *
 * 1. Everything below it is private to this account (0700, 0600).
 * 2. An identity is served by at most one live process: its lock is held as long as that lives.
 */
import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { type FileLock, lockFile } from "../../host/file-lock.ts";
import { ensurePrivateDirectory } from "../../host/secure-file.ts";
import { systemFailure } from "../../host/system-error.ts";
import { LemonError } from "../../protocol/errors.ts";
import type { NodeId } from "../../protocol/ids.ts";

/** Where the controller keeps what it must not lose. */
export interface ControllerFolders {
  readonly directory: string;
  /** The operator's and the hub's own keys. */
  readonly keys: string;
  /** One record an account that was made for a node. */
  readonly accounts: string;
  /** The hub: its configuration, log and store. */
  readonly hub: string;
  /** The hub's account resolver. */
  readonly resolver: string;
  /** The files of its vault. */
  readonly vault: string;
  /** Instead of all these, with somebody else's NATS: a folder for each account the controller has there. */
  readonly external: string;
}

export function controllerFolders(home: string): ControllerFolders {
  const directory = join(home, "controller");
  return {
    directory,
    keys: join(directory, "keys"),
    accounts: join(directory, "accounts"),
    hub: join(directory, "hub"),
    resolver: join(directory, "jwt"),
    vault: join(directory, "vault"),
    external: join(directory, "external"),
  };
}

/** Where one node of this machine keeps what it must not lose. */
export interface NodeFolders {
  readonly directory: string;
  /** The credentials of the link. */
  readonly link: string;
}

/** What belongs to a durable id: whoever joins under another is another node, whose receipts are others. */
export interface StoreFolders {
  /** The node's own nats-server: leaf and store. Unused by the local node of an embedded hub. */
  readonly server: string;
  /** The witness, store identity and fingerprint key of its receipts. */
  readonly receipts: string;
}

/** The folder in which enrolment files lie (control-plane-wire.md 5.1); no node can have this name. */
export const ENROLMENT_FOLDER = "execution";

/** Folder of the node in the controller's own process, and its name in the fleet until it gets another. */
export const LOCAL_NODE = "local";

const NODE_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

/**
 * Errors: `invalid_request` for a name that can not be a folder of its own.
 */
export function nodeFolders(home: string, name: string): NodeFolders {
  if (!NODE_NAME.test(name) || name === ENROLMENT_FOLDER) {
    throw new LemonError("invalid_request", {
      message: `A node's name is 1 to 128 of letters, digits, _, . and -, begins with a letter or digit, and is not "${ENROLMENT_FOLDER}"`,
    });
  }
  const directory = join(home, "nodes", name);
  return { directory, link: join(directory, "link") };
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Errors: `document_store_damaged` for an id that this program never gave. */
export function storeFolders({ directory }: NodeFolders, nodeId: NodeId): StoreFolders {
  if (!UUID.test(nodeId)) throw new LemonError("document_store_damaged");
  return {
    server: join(directory, "server", nodeId),
    receipts: join(directory, "receipts", nodeId),
  };
}

/**
 * Makes an identity's folder and takes its lock. `what` names it in the error: "the controller",
 * "node worker-1". Errors: `identity_in_use`; those of a private folder.
 */
export async function claimIdentity(directory: string, what: string): Promise<FileLock> {
  await ensurePrivateDirectory(directory);
  const lock = lockFile(join(directory, "lock"));
  if (lock !== null) return lock;
  throw new LemonError("identity_in_use", {
    message: `Another live process already serves ${what} of this LEMON_HOME`,
  });
}

/** Makes the state folder. Errors: `home_unusable`, naming what is wrong in one line. */
export async function openHome(home: string): Promise<void> {
  try {
    await ensurePrivateDirectory(home);
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (failure) {
    const { code, details, message } = systemFailure(failure);
    const reason = String(details["reason"] ?? code);
    throw new LemonError("home_unusable", {
      message: `LEMON_HOME can not be used: ${UNUSABLE.get(reason) ?? message}`,
      details: { reason },
      cause: failure,
    });
  }
}

/** What is wrong with a state folder, and what mends it. */
const UNUSABLE: ReadonlyMap<string, string> = new Map([
  ["mode", "others may enter it; give it mode 0700 (chmod 700)"],
  ["owner", "it belongs to another account"],
  ["not_directory", "it is not a folder, or lies below something that is none"],
  ["not_found", "it can not be made where it should stand"],
  ["permission_denied", "this account may not make it or write in it"],
]);
