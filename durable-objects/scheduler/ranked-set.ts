interface Node<T> {
  item: T;
  weight: number;
  size: number;
  left: Node<T> | null;
  right: Node<T> | null;
}

const sizeOf = <T>(node: Node<T> | null): number => (node === null ? 0 : node.size);

/**
 * An ordered set that also knows the rank of an item (a treap): add, delete, rank and first are O(log n).
 * Its shape depends on the history of calls alone, so that a replay is exact. An item's key must not change while it
 * is inside.
 */
export class RankedSet<T> {
  readonly #compare: (a: T, b: T) => number;
  #root: Node<T> | null = null;
  #noise = 0x9e3779b9;

  /** @param compare total order; two different items never compare as 0 */
  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return sizeOf(this.#root);
  }

  /** Adds the item; an item that compares as equal is replaced. */
  add(item: T): void {
    if (this.has(item)) this.delete(item);
    const [left, right] = this.#split(this.#root, item);
    const node: Node<T> = { item, weight: this.#nextWeight(), size: 1, left: null, right: null };
    this.#root = merge(merge(left, node), right);
  }

  /** @returns whether it was there */
  delete(item: T): boolean {
    if (!this.has(item)) return false;
    this.#root = this.#without(this.#root, item);
    return true;
  }

  has(item: T): boolean {
    let node = this.#root;
    while (node !== null) {
      const order = this.#compare(item, node.item);
      if (order === 0) return true;
      node = order < 0 ? node.left : node.right;
    }
    return false;
  }

  first(): T | undefined {
    let node = this.#root;
    while (node?.left) node = node.left;
    return node?.item;
  }

  /** Number of items before this one; also defined for an item that is not inside. */
  rank(item: T): number {
    let node = this.#root;
    let before = 0;
    while (node !== null) {
      if (this.#compare(item, node.item) <= 0) node = node.left;
      else {
        before += sizeOf(node.left) + 1;
        node = node.right;
      }
    }
    return before;
  }

  /** In order. The set must not change while it is walked. */
  *[Symbol.iterator](): Generator<T> {
    const stack: Node<T>[] = [];
    let node = this.#root;
    while (node !== null || stack.length > 0) {
      while (node !== null) {
        stack.push(node);
        node = node.left;
      }
      const top = stack.pop();
      if (top === undefined) return;
      yield top.item;
      node = top.right;
    }
  }

  #nextWeight(): number {
    let x = this.#noise;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#noise = x;
    return x >>> 0;
  }

  #split(node: Node<T> | null, item: T): [Node<T> | null, Node<T> | null] {
    if (node === null) return [null, null];
    if (this.#compare(node.item, item) < 0) {
      const [left, right] = this.#split(node.right, item);
      node.right = left;
      resize(node);
      return [node, right];
    }
    const [left, right] = this.#split(node.left, item);
    node.left = right;
    resize(node);
    return [left, node];
  }

  #without(node: Node<T> | null, item: T): Node<T> | null {
    if (node === null) return null;
    const order = this.#compare(item, node.item);
    if (order === 0) return merge(node.left, node.right);
    if (order < 0) node.left = this.#without(node.left, item);
    else node.right = this.#without(node.right, item);
    resize(node);
    return node;
  }
}

function resize<T>(node: Node<T>): void {
  node.size = 1 + sizeOf(node.left) + sizeOf(node.right);
}

function merge<T>(left: Node<T> | null, right: Node<T> | null): Node<T> | null {
  if (left === null) return right;
  if (right === null) return left;
  if (left.weight >= right.weight) {
    left.right = merge(left.right, right);
    resize(left);
    return left;
  }
  right.left = merge(left, right.left);
  resize(right);
  return right;
}
