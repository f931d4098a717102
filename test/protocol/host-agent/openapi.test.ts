/** Proves the OpenAPI document of the host-agent's socket: whole, without a loose end, and true to the declarations. */
import { expect } from "chai";
import { z } from "zod";
import { HOST_AGENT_ERRORS } from "../../../protocol/host-agent/errors.ts";
import { openApiDocument } from "../../../protocol/host-agent/openapi.ts";
import { COMMON_ERRORS } from "../../../protocol/host-agent/route.ts";
import { ALL_ROUTES } from "../../../protocol/host-agent/routes.ts";
import type { Json } from "../../../protocol/json-schema.ts";

type Operation = Record<string, Json> & {
  readonly operationId: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly responses: Readonly<Record<string, { readonly description: string }>>;
};

const document = openApiDocument() as {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Json>> };
};

function operationOf(path: string, method: string): Operation {
  const operation = document.paths[path]?.[method.toLowerCase()];
  if (operation === undefined) throw new Error(`${method} ${path} is missing`);
  return operation;
}

describe("the OpenAPI document of the host-agent", () => {
  it("is of 3.1 and holds every route once, under a name of its own", () => {
    expect(document.openapi).to.equal("3.1.0");
    const names = Object.values(document.paths).flatMap((path) =>
      Object.values(path).map(({ operationId }) => operationId),
    );
    expect(names).to.have.members(ALL_ROUTES.map(({ name }) => name));
    for (const { method, path, name } of ALL_ROUTES) {
      expect(operationOf(path, method).operationId).to.equal(name);
    }
  });

  it("points nowhere but to what it holds", () => {
    const text = JSON.stringify(document);
    const pointed = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, target]) => target);
    expect(new Set(pointed)).to.deep.equal(
      new Set(
        Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`),
      ),
    );
  });

  it("declares every parameter that a path has, and no other in a path", () => {
    for (const { method, path } of ALL_ROUTES) {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const declared = (operationOf(path, method).parameters ?? []).filter(
        (parameter) => parameter.in === "path",
      );
      expect(
        declared.map(({ name }) => name),
        path,
      ).to.deep.equal(inPath);
    }
  });

  it("names every code that a route can answer, under its status", () => {
    for (const { method, path, errors } of ALL_ROUTES) {
      const { responses } = operationOf(path, method);
      for (const code of [...errors, ...COMMON_ERRORS]) {
        const { status } = HOST_AGENT_ERRORS[code];
        expect(responses[String(status)]?.description, `${path} ${code}`).to.include(`\`${code}\``);
      }
    }
  });

  it("describes a job and an error as they are", () => {
    const shape = (name: string) =>
      z.fromJSONSchema(document.components.schemas[name] as z.core.JSONSchema.BaseSchema);
    const job = { job_id: "j_a4f7b2", kind: "system-update", status: "running", progress: 0.42 };
    expect(shape("Job").safeParse(job).success).to.equal(true);
    expect(shape("Job").safeParse({ ...job, status: "done" }).success).to.equal(false);
    expect(shape("Error").safeParse({ code: "unknown-job", message: "x" }).success).to.equal(true);
    expect(shape("Error").safeParse({ code: "other", message: "x" }).success).to.equal(false);
  });
});
