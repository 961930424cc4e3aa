import { cx } from "./class.ts";

/**
 * A name in a row: whole on hover, and cut before it takes the room of the columns beside it. Where there is no page that
 * shows the name in full, it is `wrapped` instead.
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
      className={cx(
        "inline-block align-bottom",
        wrapped ? "min-w-24 whitespace-normal wrap-anywhere" : "max-w-28 truncate sm:max-w-56 xl:max-w-72 2xl:max-w-xl",
        className,
      )}
    >
      {children}
    </span>
  );
}
