import { expect } from "chai";
import type { JobKind, JobTools } from "../../../actors/job/kind.ts";
import { JobKinds, jobKind } from "../../../actors/job/registry.ts";

interface Login {
  readonly user: string;
  readonly password: Uint8Array;
}

const whole: JobKind<Login> = {
  name: "demo-login",
  maxDurationMs: 60_000,
  dangerous: false,
  resourceClass: "disk",
  stallPolicy: { noProgressMs: 1 },
  whenBusy: "queue",
  read: (body) => ({ user: String(body), password: Buffer.from("sesame") }),
  credentials: ({ password }) => [password],
  run: async ({ request, progress }) => {
    progress(0.5);
    return { user: request.user, password: String(request.password) };
  },
};

/** As code would hand it over that no compiler saw. */
function declared(changes: Readonly<Record<string, unknown>>): () => unknown {
  const kind: JobKind<Login> = { ...whole, ...changes };
  return () => jobKind(kind);
}

function without(attribute: string): () => unknown {
  const kind: JobKind<Login> = { ...whole };
  Reflect.deleteProperty(kind, attribute);
  return () => jobKind(kind);
}

describe("The registry of job kinds", () => {
  for (const attribute of Object.keys(whole)) {
    it(`refuses a kind without ${attribute}`, () => {
      expect(without(attribute)).to.throw(`A kind of job: ${attribute} must be`);
    });
  }

  it("refuses an attribute that it does not know: it could be a misspelt one", () => {
    expect(declared({ dangerouss: true })).to.throw("dangerouss is no attribute of a kind");
  });

  it("accepts only a duration above 0", () => {
    for (const maxDurationMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, "60s"]) {
      expect(declared({ maxDurationMs }), String(maxDurationMs)).to.throw("maxDurationMs must be");
    }
    expect(declared({ maxDurationMs: 1 })).not.to.throw();
  });

  it("accepts only an explicit yes or no to whether it is dangerous", () => {
    for (const dangerous of [undefined, null, 0, "no"]) {
      expect(declared({ dangerous }), String(dangerous)).to.throw("dangerous must be");
    }
  });

  it("accepts only a class, a policy and an answer to a busy kind that it knows", () => {
    expect(declared({ resourceClass: "gpu" })).to.throw("resourceClass must be one of apt, disk");
    expect(declared({ whenBusy: "wait" })).to.throw("whenBusy must be");
    for (const stallPolicy of ["never", null, {}, { noProgressMs: 0 }]) {
      expect(declared({ stallPolicy })).to.throw("stallPolicy must be");
    }
    expect(declared({ stallPolicy: "none" })).not.to.throw();
  });

  it("accepts only a name that can stand in a path", () => {
    for (const name of ["", "-x", "Enroll", "a/b", "a b", "a".repeat(65)]) {
      expect(declared({ name }), name).to.throw("name must be");
    }
    expect(declared({ name: "a".repeat(64) })).not.to.throw();
  });

  it("refuses two kinds of one name", () => {
    expect(() => new JobKinds([jobKind(whole), jobKind(whole)])).to.throw("name is taken");
  });

  it("finds a kind by its name, and nothing under another", () => {
    const kinds = new JobKinds([jobKind(whole)]);
    expect(kinds.get("demo-login")?.resourceClass).to.equal("disk");
    expect(kinds.get("demo-logout")).to.equal(undefined);
  });

  it("hands the work its own request, and zeroes the credentials in it", async () => {
    const fractions: number[] = [];
    const tools: JobTools = {
      signal: new AbortController().signal,
      progress: (fraction) => void fractions.push(fraction),
      log: () => {},
      spawn: () => Promise.reject(new Error("not used")),
    };
    let seen: Login | undefined;
    const kind = jobKind<Login>({
      ...whole,
      run: async (context) => {
        seen = context.request;
        return whole.run(context);
      },
    });
    const job = kind.prepare("cindy");
    expect(await job.run(tools)).to.deep.equal({ user: "cindy", password: "sesame" });
    expect(fractions).to.deep.equal([0.5]);
    job.wipe();
    expect([...(seen?.password ?? [])]).to.deep.equal([0, 0, 0, 0, 0, 0]);
  });
});
