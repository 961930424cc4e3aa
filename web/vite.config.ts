import { fileURLToPath } from "node:url";
import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";
import { OPERATION_LIST } from "../contracts/operations/index.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/**
 * A browser needs of an operation where it is and who may call it, not its schemas: the table is built in without them. A
 * form that checks what is typed imports its schema itself, in its own chunk.
 */
function slimOperations(): Plugin {
  const table = here("../contracts/operations/index.ts");
  return {
    name: "slim-operations",
    load(id) {
      if (id !== table) return null;
      const slim = OPERATION_LIST.map(
        ({ name, method, path, action, audience, outputType, creates, destructive }) =>
          [name, { name, method, path, action, audience, outputType, creates, destructive }] as const,
      );
      return `export const OPERATIONS = ${JSON.stringify(Object.fromEntries(slim))};\nexport const OPERATION_LIST = Object.values(OPERATIONS);`;
    },
  };
}

/** The dashboard, to a plain folder: served as the Worker's assets, or by Pages. */
export default defineConfig({
  root: here("."),
  base: "/dashboard/",
  publicDir: here("static"),
  plugins: [slimOperations(), react(), tailwind()],
  build: {
    outDir: here("../dist/web/dashboard"),
    emptyOutDir: true,
    target: "es2024",
    modulePreload: { polyfill: false },
    // Everything is a file: the policy allows data: for images only.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // Making a schema has no effect but the schema: one that nobody uses is left out.
    rolldownOptions: { treeshake: { manualPureFunctions: ["z", "idOf"] } },
  },
  server: {
    // `vite web` beside `npm start`: pages from source, the API from the server.
    proxy: { "^/(?!dashboard)": process.env.EVERDICT_API_URL ?? "http://127.0.0.1:8787" },
  },
});
