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
        classNames: {
          toast: "!font-sans !pr-10",
          description: "!text-muted",
          actionButton: "!bg-accent-solid !text-white",
          // Inside and large enough for a finger: at its corner it hangs over the edge of a narrow screen.
          closeButton:
            "!top-1/2 !right-2 !left-auto !size-6 !-translate-y-1/2 !transform-none !rounded !border-0 !bg-transparent !text-muted hover:!bg-hover",
        },
      }}
    />
  );
}
