import type { Difference } from "./diff.ts";

/** A change field by field; what is added or removed says so in words. */
export function DiffTable({ label, changes }: { label: string; changes: readonly Difference[] }) {
  if (changes.length === 0) return <p className="text-muted">No field differs.</p>;
  return (
    <div className="overflow-x-auto" tabIndex={0}>
      <table aria-label={label} className="w-full text-left text-xs">
        <thead className="text-muted">
          <tr>
            <th scope="col" className="py-1 pr-3 font-medium">
              Field
            </th>
            <th scope="col" className="py-1 pr-3 font-medium">
              Before
            </th>
            <th scope="col" className="py-1 font-medium">
              After
            </th>
          </tr>
        </thead>
        <tbody>
          {changes.map(({ path, before, after }) => (
            <tr key={path} className="border-t border-line align-top">
              <th scope="row" className="py-1 pr-3 font-mono font-normal">
                {path}
              </th>
              <td className="py-1 pr-3 font-mono break-all text-bad">
                {before ?? <span className="font-sans text-faint">not set</span>}
              </td>
              <td className="py-1 font-mono break-all text-ok">
                {after ?? <span className="font-sans text-faint">removed</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
