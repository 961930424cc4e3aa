import { cx } from "./class.ts";

/**
 * A name in a row: whole on hover, and cut before it takes the room of the columns beside it, on a narrow screen after two
 * lines. Where there is no page that shows the name in full, it is `wrapped` instead.
 */
export function Name({
  children,
  wrapped = false,
  className,
}: {
  children: string;
  wrapped?: boolean;
  className?: string;
}) {
  return (
    <span
      title={children}
      // As a letter wide a table would make it, where the row is too long for the screen.
      style={wrapped ? { minWidth: `min(${children.length}ch, 6rem)` } : undefined}
      className={cx(
        "inline-block align-bottom",
        wrapped
          ? "whitespace-normal wrap-anywhere"
          : "max-w-28 max-sm:line-clamp-2 max-sm:whitespace-normal max-sm:wrap-anywhere sm:max-w-56 sm:truncate xl:max-w-72 2xl:max-w-xl",
        className,
      )}
    >
      {children}
    </span>
  );
}
