/** Declares people's credentials and roles, their homes, and the identities apps run as. */
import { z } from "zod";
import { done, requiredText, route } from "../route.ts";

/** Numbers that are ours to give to apps; people begin above. */
export const APP_SERVICE_BAND = { min: 2100, max: 2999 } as const;

export const verifyPassword = route({
  name: "verifyPassword",
  method: "POST",
  path: "/v1/auth/verify-password",
  effect: "read",
  summary: "Whether the password is the user's; never why not.",
  body: z.object({ user: z.string().default(""), password: z.string().default("") }),
  bodyOptional: false,
  result: z.object({ valid: z.boolean() }),
});

const BOTH = "user and password are required";

export const setPassword = route({
  name: "setPassword",
  method: "POST",
  path: "/v1/auth/set-password",
  summary: "Sets a user's password; makes the user when there is none.",
  body: z.object({ user: requiredText(BOTH), password: requiredText(BOTH) }),
  result: done,
  errors: ["bad-request"],
  failure: "set-password-failed",
});

const USER = "user is required";

export const setRole = route({
  name: "setRole",
  method: "POST",
  path: "/v1/auth/set-role",
  summary: "Makes a user an admin or a member.",
  body: z.object({
    user: requiredText(USER),
    role: z.enum(["admin", "member"], { error: "role must be admin or member" }),
  }),
  result: done,
  errors: ["bad-request"],
  failure: "set-role-failed",
});

export const deleteUser = route({
  name: "deleteUser",
  method: "POST",
  path: "/v1/auth/delete-user",
  summary: "Deletes a user with the home; one who is not there is as good.",
  body: z.object({ user: requiredText(USER) }),
  result: done,
  errors: ["bad-request"],
  failure: "delete-user-failed",
});

export const userHome = route({
  name: "userHome",
  method: "GET",
  path: "/v1/users/{username}/home",
  summary: "A user's home folder and numbers.",
  params: z.object({ username: z.string() }),
  result: z.object({ home_path: z.string(), uid: z.int(), gid: z.int() }),
  errors: ["unknown-user"],
  failure: "resolve-home-failed",
});

export const wellKnownIdentity = route({
  name: "wellKnownIdentity",
  method: "GET",
  path: "/v1/identity/well-known",
  summary: "The fixed numbers of the shared app account and of the household's group.",
  result: z.object({
    malmo_app_uid: z.int(),
    malmo_app_gid: z.int(),
    malmo_shared_gid: z.int(),
  }),
  failure: "well-known-identity-failed",
});

export const allocateAppService = route({
  name: "allocateAppService",
  method: "POST",
  path: "/v1/identity/app-service",
  summary: "Reserves a number of the app-service band; the same instance keeps its number.",
  body: z.object({ instance_id: requiredText("instance_id is required") }),
  result: z.object({ uid: z.int(), gid: z.int() }),
  errors: ["bad-request"],
  failure: "allocate-app-service-failed",
});

const OUTSIDE = "uid outside the app-service band";

export const releaseAppService = route({
  name: "releaseAppService",
  method: "POST",
  path: "/v1/identity/app-service/release",
  summary: "Gives a number of the band back; one that is free is as good.",
  body: z.object({
    uid: z
      .int({ error: OUTSIDE })
      .min(APP_SERVICE_BAND.min, OUTSIDE)
      .max(APP_SERVICE_BAND.max, OUTSIDE),
  }),
  result: done,
  errors: ["bad-request"],
  failure: "release-app-service-failed",
});
