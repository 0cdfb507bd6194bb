// Preloaded into servers that have no option for it: whatever listens, listens on loopback only.
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, rest.findLast((item) => typeof item === "function"));
};
