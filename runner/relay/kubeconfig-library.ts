/** What is used of the library: an import of the whole of it would bring the code of every API into the bundle. */
export { KubeConfig } from "@kubernetes/client-node";
