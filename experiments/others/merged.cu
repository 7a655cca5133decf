// Merges two sorted lists; each thread finds its place on the merge path and writes `items` elements.
__global__ void merged(int *out, const int *a, const int *b, int n)
{
    const int from = (blockIdx.x * threads + threadIdx.x) * items;
    if (from >= 2 * n) return;
    int low = max(0, from - n), high = min(from, n);
    while (low < high) {
        const int middle = (low + high) / 2;
        if (a[middle] <= b[from - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    int i = low, j = from - low;
    for (int k = from; k < min(from + items, 2 * n); k++) {
        const bool first = j >= n || (i < n && a[i] <= b[j]);
        out[k] = first ? a[i++] : b[j++];
    }
}
