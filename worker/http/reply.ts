/** An answer with another status than the operation's usual one, or with headers. */
export class Reply<T> {
  readonly body: T;
  readonly status: number;
  readonly headers: Record<string, string>;

  constructor(body: T, status: number, headers: Record<string, string> = {}) {
    this.body = body;
    this.status = status;
    this.headers = headers;
  }
}
