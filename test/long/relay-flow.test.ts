import { vi } from "vitest";

/* The same with a log of 1 GiB: EVERDICT_LONG is set here. */
vi.setConfig({ testTimeout: 300_000 });
await import("../relay/flow.test.ts");
