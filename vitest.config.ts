import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: [
            "test/contracts/**/*.test.ts",
            "test/core/**/*.test.ts",
            "test/program/**/*.test.ts",
            "test/runner/**/*.test.ts",
            "test/worker/**/*.test.ts",
          ],
        },
      },
      { test: { name: "simulation", include: ["test/simulation/**/*.test.ts"] } },
      {
        plugins: [cloudflareTest({ wrangler: { configPath: "test/objects/wrangler.toml" } })],
        test: { name: "objects", include: ["test/objects/**/*.test.ts"] },
      },
    ],
  },
});
