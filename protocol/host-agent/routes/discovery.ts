/** Declares the names that the box announces on the local network. */
import { z } from "zod";
import { done, requiredText, route } from "../route.ts";

const published = z.object({ name: z.string(), state: z.string() });
const SLUG = "slug is required";

export const discoveryPublish = route({
  name: "discoveryPublish",
  method: "POST",
  path: "/v1/discovery/publish",
  summary: "Announces SLUG.local; the name in the answer is the one to use.",
  body: z.object({ slug: requiredText(SLUG) }),
  result: published,
  errors: ["bad-request", "hostname-conflict", "avahi-down", "timeout"],
  failure: "publish-failed",
});

export const discoveryUnpublish = route({
  name: "discoveryUnpublish",
  method: "POST",
  path: "/v1/discovery/unpublish",
  summary: "Withdraws a name; one that is not announced is as good.",
  body: z.object({ slug: requiredText(SLUG) }),
  result: done,
  errors: ["bad-request", "avahi-down", "timeout"],
  failure: "unpublish-failed",
});

export const discoveryState = route({
  name: "discoveryState",
  method: "GET",
  path: "/v1/discovery/state",
  summary: "What is announced, by whom, and on which interfaces.",
  result: z.object({
    publisher: z.string(),
    host_name: z.string(),
    renamed_to: z.string().nullable().describe("Set after a conflict about the host's own name."),
    published: z.array(published.extend({ slug: z.string() })),
    interfaces: z.array(z.string()).describe("Empty is not measured."),
  }),
});
