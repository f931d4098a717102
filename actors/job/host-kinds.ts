/**
 * Owns the kinds of job of a host-agent: what each declares, and its way from a request to the host (host-agent
 * contract, "Pattern B"; rulings, "Host-agent").
 */
import type { Accounts } from "../../host/machine/accounts.ts";
import type { Host } from "../../host/machine/host.ts";
import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import { ejectDrive, enrollDrive, systemUpdate } from "../../protocol/host-agent/routes/jobs.ts";
import type { JobKind } from "./kind.ts";
import { jobKind, type RegisteredKind } from "./registry.ts";

const MINUTE_MS = 60_000;

type HostWork = Pick<Host, "drives" | "updates" | "power"> & {
  readonly accounts: Pick<Accounts, "verifyPassword">;
};

export function hostJobKinds(host: HostWork): readonly RegisteredKind[] {
  return [
    jobKind(update(host)),
    jobKind(enroll(host)),
    jobKind(eject(host)),
    jobKind(power("reboot", () => host.power.reboot())),
    jobKind(power("shutdown", () => host.power.shutdown())),
  ];
}

/** The existing client reads any 409 as an update that is in progress: a second one does not wait. */
function update({ updates }: HostWork): JobKind<Parameters<HostWork["updates"]["run"]>[0]> {
  return {
    name: "system-update",
    maxDurationMs: 30 * MINUTE_MS,
    dangerous: false,
    resourceClass: "apt",
    // Building an initramfs on a slow disk is silent for minutes.
    stallPolicy: { noProgressMs: 10 * MINUTE_MS },
    whenBusy: "reject",
    read(body) {
      const { brain_image, ui_image } = systemUpdate.body.parse(body);
      return { brainImage: brain_image ?? null, uiImage: ui_image ?? null };
    },
    credentials: () => [],
    run: ({ request, ...work }) => updates.run(request, work),
  };
}

/** Who asks for it, as bytes where that is a secret. */
interface Admin {
  readonly user: string;
  readonly password: Uint8Array;
}

const DRIVE = {
  maxDurationMs: 10 * MINUTE_MS,
  dangerous: true,
  resourceClass: "disk",
  stallPolicy: "none",
  whenBusy: "queue",
} as const;

function enroll({ accounts, drives }: HostWork): JobKind<Admin & { readonly device: string }> {
  return {
    name: "enroll-drive",
    ...DRIVE,
    read(body) {
      const { device, ...admin } = enrollDrive.body.parse(body);
      return { device, ...adminOf(admin) };
    },
    credentials: ({ password }) => [password],
    async run({ request, ...work }) {
      await verify(accounts, request);
      return await drives.enroll(request.device, work);
    },
  };
}

function eject({ accounts, drives }: HostWork): JobKind<Admin> {
  return {
    name: "eject-drive",
    ...DRIVE,
    read: (body) => adminOf(ejectDrive.body.parse(body)),
    credentials: ({ password }) => [password],
    async run({ request, ...work }) {
      await verify(accounts, request);
      return await drives.eject(work);
    },
  };
}

/** It waits for everything that runs, so that nothing is cut off; nothing begins while the order is given. */
function power(name: string, order: () => Promise<void>): JobKind<null> {
  return {
    name,
    maxDurationMs: MINUTE_MS,
    dangerous: true,
    resourceClass: "systemd",
    stallPolicy: "none",
    whenBusy: "queue",
    read: () => null,
    credentials: () => [],
    async run() {
      await order();
      return {};
    },
  };
}

function adminOf(body: { readonly admin_user: string; readonly admin_password: string }): Admin {
  return { user: body.admin_user, password: Buffer.from(body.admin_password) };
}

/** The first step; the password is of no use after it. */
async function verify(accounts: HostWork["accounts"], { user, password }: Admin): Promise<void> {
  const valid = await accounts.verifyPassword(user, password).finally(() => password.fill(0));
  if (!valid) throw new HostAgentError("auth-failed");
}
