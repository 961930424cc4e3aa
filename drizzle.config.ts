import { defineConfig } from "drizzle-kit";

export default defineConfig({
  dialect: "sqlite",
  schema: "./worker/store/schema.ts",
  out: "./d1-migrations",
  casing: "snake_case",
});
