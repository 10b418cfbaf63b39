// A provider in JavaScript: each Node has a machine, which is the Node itself.
import { write } from 'ccm:cloud/log@0.2.0';

export const meta = {
  describe: () => ({
    name: 'hello-js',
    version: '0.1.0',
    revision: '1',
    providerIdSchemes: ['hello-js'],
    files: [],
    endpoints: [],
    credentials: [],
    settings: [],
    annotations: [],
    budgets: [],
    more: [],
  }),
  offers: () => [],
  check: (_online) => [],
};

const machine = (node) => ({
  providerId: node.providerId ?? `hello-js://${node.name}`,
  instanceType: 'hello',
  addresses: node.addresses,
  zone: '',
  region: '',
  labels: [],
  state: 'running',
  more: [],
});

export const instances = {
  find(nodes, need) {
    write('info', 'hello from JavaScript', [['nodes', `${nodes.length}`], ['need', need]]);
    return nodes.map((node) => ({ tag: 'found', val: machine(node) }));
  },
};
