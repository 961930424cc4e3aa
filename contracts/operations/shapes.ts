import * as z from "zod";
import { LIMITS, RegistryId, SHARED_OWNER, Version, WorkspaceId } from "../names.ts";
import { whole, wholeRange } from "../numbers.ts";
import { Timestamp } from "../run.ts";

export const NoParams = z.strictObject({});
export const NoQuery = z.strictObject({});

/** A whole number in a query string; a typo is refused, never read as a default. */
export const queryInt = (min: number, max: number) =>
  z
    .string()
    .max(20)
    .regex(/^\d{1,15}$/, wholeRange(min, max))
    .transform(Number)
    .pipe(whole(min, max));

/** A browser's EventSource sends no headers. */
export const StreamQuery = z.strictObject({
  workspace: z
    .union([z.literal(SHARED_OWNER), WorkspaceId])
    .optional()
    .describe("As the header X-Everdict-Workspace, for callers that cannot send headers"),
});

export const PageQuery = {
  limit: queryInt(1, LIMITS.pageMax)
    .optional()
    .describe(`Rows a page, 1 to ${LIMITS.pageMax}; default ${LIMITS.pageDefault}`),
  cursor: z.string().min(1).max(2_000).optional().describe("nextCursor of the page before"),
};

export const page = <T extends z.ZodType>(item: T) =>
  z.strictObject({
    items: z.array(item),
    nextCursor: z.string().nullable().describe("Pass it as cursor; null at the end"),
  });

export const IdParams = z.strictObject({ id: RegistryId });
export const VersionParams = z.strictObject({
  id: RegistryId,
  version: z.union([z.literal("latest"), Version]).describe("A version, or latest"),
});

export const Registered = z
  .strictObject({
    id: z.string(),
    version: z.string(),
    owner: z.string(),
    createdAt: Timestamp,
    createdBy: z.string(),
    warnings: z.array(z.string()).describe("Things that work and may surprise"),
  })
  .describe("What was registered");

export const Actor = z.string().max(300).describe("Who did it");
