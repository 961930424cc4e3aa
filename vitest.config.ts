import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

const migrations = await readD1Migrations("d1-migrations");

export default defineConfig({
  test: {
    // The Worker's own JSON lines are not test output.
    onConsoleLog: (log) => !log.trimStart().startsWith("{"),
    projects: [
      {
        test: {
          name: "unit",
          testTimeout: 60_000,
          include: [
            "test/contracts/**/*.test.ts",
            "test/core/**/*.test.ts",
            "test/worker/**/*.test.ts",
            "test/web/unit/**/*.test.ts",
          ],
        },
      },
      // Real shells, processes and, where an engine answers, containers.
      {
        test: {
          name: "machine",
          include: ["test/program/**/*.test.ts", "test/runner/**/*.test.ts", "test/deploy/**/*.test.ts"],
          testTimeout: 120_000,
        },
      },
      { test: { name: "simulation", include: ["test/simulation/**/*.test.ts"], testTimeout: 900_000 } },
      {
        plugins: [cloudflareTest({ wrangler: { configPath: "test/objects/wrangler.toml" } })],
        test: { name: "objects", include: ["test/objects/**/*.test.ts"], testTimeout: 60_000 },
      },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "wrangler.toml" },
            miniflare: {
              r2Buckets: ["LOGS"],
              bindings: {
                TEST_MIGRATIONS: migrations,
                EVERDICT_SIGNING_KEY: "c2lnbmluZy1rZXktZm9yLXRlc3RzLW9ubHktMzItYnk=",
                EVERDICT_VAULT_KEYS: '{"current":"k1","keys":{"k1":"dmF1bHQta2V5LWZvci10ZXN0cy1vbmx5LTMyLWJ5dGU="}}',
              },
            },
          }),
        ],
        test: {
          name: "api",
          include: ["test/api/**/*.test.ts"],
          setupFiles: ["test/api/setup.ts"],
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts", "test/relay/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 60_000,
          fileParallelism: false,
        },
      },
      // The dashboard in a real browser against the real server and runner; each file says when there is no browser.
      {
        test: {
          name: "web",
          include: ["test/web/browser/**/*.test.ts"],
          expect: { poll: { timeout: 15_000 } },
          testTimeout: 120_000,
          hookTimeout: 60_000,
          fileParallelism: false,
        },
      },
      // Whatever cluster KUBECONFIG (or NOMAD_ADDR and NOMAD_TOKEN) names; each file says when it is skipped.
      {
        test: {
          name: "clusters",
          include: ["test/clusters/**/*.test.ts"],
          testTimeout: 300_000,
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
      // The backends against fakes that have the clusters' own laws.
      { test: { name: "backends", include: ["test/backends/**/*.test.ts"], testTimeout: 120_000 } },
      // Minutes of real time: leases that run out, hundreds of kills. `npm run test:long`.
      ...(process.env.EVERDICT_LONG
        ? [{ test: { name: "long", include: ["test/long/**/*.test.ts"], hookTimeout: 60_000, fileParallelism: false } }]
        : []),
    ],
  },
});
