// libcuda.so.1 is empty: what is looked up in it is found in the runtime that it needs.
