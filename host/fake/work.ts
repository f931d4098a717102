/** Long work of a fake host: steps that take their time, say so, and stop when they are told to. */

import { HostAgentError } from "../../protocol/host-agent/errors.ts";
import type { Clock } from "../clock.ts";
import type { Drives, Updates, UpdateTarget, Work, WorkResult } from "../machine/work.ts";

const DEVICE = /^\/dev\/[a-z0-9]{1,32}$/;

class Steps {
  readonly #clock: Clock;
  readonly #wholeMs: number;

  constructor(clock: Clock, wholeMs: number) {
    this.#clock = clock;
    this.#wholeMs = wholeMs;
  }

  /** Rejects with the signal's reason once that is aborted. */
  async take(steps: readonly string[], { signal, log, progress }: Work): Promise<void> {
    for (const [index, step] of steps.entries()) {
      log("stdout", step);
      await this.#pause(this.#wholeMs / steps.length, signal);
      progress((index + 1) / steps.length);
    }
  }

  #pause(delayMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        cancel();
        reject(signal.reason);
      };
      const cancel = this.#clock.after(delayMs, () => {
        signal.removeEventListener("abort", stop);
        resolve();
      });
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop, { once: true });
    });
  }
}

export class FakeUpdates implements Updates {
  readonly #steps: Steps;

  constructor(clock: Clock, wholeMs: number) {
    this.#steps = new Steps(clock, wholeMs);
  }

  async run({ brainImage, uiImage }: UpdateTarget, work: Work): Promise<WorkResult> {
    await this.#steps.take(
      [
        "Reading package lists...",
        "Building dependency tree...",
        "3 packages to upgrade",
        "Fetching archives...",
        "Unpacking...",
        "Setting up...",
        "Done",
      ],
      work,
    );
    return {
      brain_changed: brainImage !== null,
      ui_changed: uiImage !== null,
      reverted: false,
      ...(brainImage === null ? {} : { brain_image: brainImage }),
      ...(uiImage === null ? {} : { ui_image: uiImage }),
    };
  }
}

export class FakeDrives implements Drives {
  readonly #steps: Steps;

  constructor(clock: Clock, wholeMs: number) {
    this.#steps = new Steps(clock, wholeMs);
  }

  async enroll(device: string, work: Work): Promise<WorkResult> {
    if (!DEVICE.test(device)) {
      throw new HostAgentError("bad-request", { message: "device is none of this host" });
    }
    const steps = [
      "Partitioning",
      "Encrypting",
      "Enrolling the TPM",
      "Mounting",
      "Joining the pool",
    ];
    await this.#steps.take(steps, work);
    return { enrolled: true };
  }

  async eject(work: Work): Promise<WorkResult> {
    await this.#steps.take(["Stopping apps", "Unmounting", "Removing the marker"], work);
    return { ejected: true };
  }
}
