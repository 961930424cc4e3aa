import { Toaster } from "sonner";
import { useDark } from "./theme.ts";

export default function Toasts() {
  const dark = useDark();
  return (
    <Toaster
      theme={dark ? "dark" : "light"}
      position="bottom-right"
      closeButton
      toastOptions={{
        style: { background: "var(--surface)", color: "var(--ink)", border: "1px solid var(--line-strong)" },
        classNames: { description: "!text-muted", actionButton: "!bg-accent-solid !text-white" },
      }}
    />
  );
}
